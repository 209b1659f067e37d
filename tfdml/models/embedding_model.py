"""A Keras model that adopts and trains the layers of its loss."""

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import keras

from tfdml._core.backends import of_all_replicas
from tfdml._core.checks import named_rows, require, require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer, unchanged
from tfdml.models.checks.collapse import count_collapsed
from tfdml.models.checks.fit_arguments import (
    require_fit,
    require_losses_and_metrics,
    require_no_activity_losses,
    require_usable,
)
from tfdml.models.checks.labels import BatchChecks, checked_data
from tfdml.models.checks.outputs import labels_of, losses_of, require_losses_of_outputs
from tfdml.models.checks.pixels import require_pixels
from tfdml.models.compile_config import with_public_optimizers, with_shared_objects
from tfdml.models.devices import (
    build_layer,
    clip_after_the_sum,
    in_one_process,
    once_for_all_replicas,
    process,
    require_divisible,
    variables_of,
    wait_for_all_processes,
)
from tfdml.models.learning_rates import exclude_from_decay, multipliers_of, scale_updates
from tfdml.models.loss_copies import own_losses
from tfdml.models.micro_batches import in_micro_batches
from tfdml.networks.depth import inner_layers
from tfdml.networks.lora import adapt, freeze_around_lora, has_lora, merge_lora

_RANDOM = "random_state_"


@serializable
class EmbeddingModel(keras.Model):
    """A `keras.Model` that adopts the layers of its loss when it is compiled.

    Built like any functional model, `EmbeddingModel(inputs, outputs)`. A loss with weights or state (proxies, margins,
    a memory, the state of a random miner) holds them in Keras layers and lists these layers in its `layers`. `fit`
    trains the layers and `.keras` files store them, on every Keras backend. `evaluate` does not change them. With any
    other loss, the model behaves as a `keras.Model`.

    On several replicas of `tf.distribute`, every replica computes the loss of the whole batch, so that training equals
    training on one device. (In a `keras.Model`, each replica compares the rows of its own part.) Layers such as
    `BatchNormalization` take their statistics from the part of a replica.

    Its files also keep what Keras leaves out, so that a resumed run equals an uninterrupted one: the state of random
    layers (dropout, augmentation), the number of training steps, and which layers are frozen or have LoRA inside a
    part that is saved by its settings alone, such as a backbone of KerasHub.

    See also: `from_backbone`, which makes one; `TwoTowers` and `PairModel` for two inputs.

    Example:

        >>> inputs = keras.Input((3,))
        >>> model = tfdml.models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
        >>> model.compile("adam", loss=tfdml.losses.ProxyNCALoss(classes=5))
        >>> [tuple(variable.shape) for variable in model.trainable_variables]  # kernel, bias, proxies of the loss
        [(3, 2), (2,), (5, 2)]

    Attributes:
        loss_layers: the adopted layers, empty for losses without any.
        steps: training steps since the model was compiled.
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **options: Any) -> None:
        expected = (
            "a functional model. Put the layers into a keras.Layer or a keras.Model with a call, and pass what it "
            "makes of an input: EmbeddingModel(inputs, network(inputs)) with inputs = keras.Input(shape)"
        )
        is_functional = inputs is not None and outputs is not None
        require(is_functional, f"{type(self).__name__} without inputs and outputs", expected)
        super().__init__(inputs, outputs, name=name, **options)

    def compile(
        self,
        *args: Any,
        learning_rate_multipliers: Mapping[str, float] | None = None,
        micro_batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.compile`; the layers of the loss become part of this model.

        A loss that holds layers belongs to the first model that is compiled with it. Every other model gets a copy,
        `model.loss`, that begins as the first began. To share a layer, pass it to two losses:
        `ArcFaceLoss(pairing=proxies)`.

        The weight decay of the optimizer leaves out what a loss learns as single numbers: temperatures, scales, biases,
        boundaries. Proxies and other matrices of a loss have the decay of the network.

        Args:
            learning_rate_multipliers: dict of layer name to the factor of its learning rate, such as
                `{"backbone": 0.1}`; layers inside other layers and layers of the loss have names, too. All other layers
                have the learning rate of the optimizer. Decoupled weight decay is not scaled. Files keep the dict.
            micro_batch_size: in training, the network takes this number of rows at a time, and the loss all of them, so
                that batches may be larger than the memory for activations allows. The gradient equals the gradient of
                the whole batch; the network is computed twice. Batch normalization takes its statistics from each
                micro-batch. None for the whole batch at a time.

        Raises:
            ValueError: a name that no layer has; a micro-batch with layers that regularize their activities; a layout
                of `keras.distribution` that does not divide the layers of the loss; in training, a batch that is not a
                multiple of `micro_batch_size`.
        """
        if micro_batch_size is not None:
            require_whole("micro_batch_size", micro_batch_size, 1)
            require_no_activity_losses(self)
        arguments = inspect.signature(super().compile).bind(*args, **kwargs).arguments
        loss = own_losses(arguments.pop("loss", None), self)
        self._require_compilable(loss, arguments, learning_rate_multipliers or {})
        self._compile_with(loss, arguments)
        self._jit_compile_option = arguments.get("jit_compile", "auto")
        if hasattr(self, "loss_layers"):
            self.loss_layers.clear()  # the layers of an earlier compile are no longer trained
        self.loss_layers: list[keras.layers.Layer] = _layers_of(self.loss)
        weights = [weight for layer in self.loss_layers for weight in layer.trainable_variables]
        if numbers := [weight for weight in weights if len(weight.shape) < 2]:
            exclude_from_decay(self.optimizer, numbers)
        if self._is_replicated():
            clip_after_the_sum(self.optimizer)
        self._checks_of_single_batches = self._checks()
        self._has_counted_positives = False
        if not hasattr(self, "_counter"):
            # A seed generator counts its calls, also in compiled steps and on replicas, and is not part of `weights`.
            self._counter = keras.random.SeedGenerator(0, name="steps")
            self._collapsed = keras.random.SeedGenerator(0, name="collapsed")  # likewise, two numbers of batches
        self._set_steps(0)
        self._micro_batch_size = micro_batch_size
        self._multipliers = dict(learning_rate_multipliers or {})
        factors = multipliers_of(self._flatten_layers(include_self=False), self._multipliers)
        if factors:
            scale_updates(self.optimizer, lambda number: factors.get(id(self.trainable_variables[number]), 1.0))

    def _require_compilable(self, loss, arguments, multipliers):
        """Raise the errors of `compile`, so that they leave an earlier compile as it was; build the loss's layers."""
        require_losses_of_outputs(loss, arguments.get("loss_weights"), self)
        require_losses_and_metrics(self, loss, arguments)
        for layer, output in _layers_by_output(loss, self):
            if not layer.built:  # before the optimizer is built
                build_layer(layer, (None,), tuple(self.outputs[output].shape))
        earlier = {id(layer) for layer in _flattened(getattr(self, "loss_layers", []))}
        layers = [layer for layer in self._flatten_layers(include_self=False) if id(layer) not in earlier]
        multipliers_of([*layers, *_flattened(_layers_of(loss))], multipliers)

    def _compile_with(self, loss, arguments):
        super().compile(loss=once_for_all_replicas(loss) if self._is_replicated() else loss, **arguments)
        if loss is not None:
            self.loss = loss

    def _is_replicated(self):
        return getattr(getattr(self, "distribute_strategy", None), "num_replicas_in_sync", 1) > 1

    def _checks(self, **options):
        return BatchChecks(self, **options)

    def get_config(self) -> dict[str, Any]:
        """The config of Keras, and the numbers of the layers that are not trained, and of those with LoRA."""
        return {**super().get_config(), **self._tuning_config()}

    def _tuning_config(self):
        """The numbers of the frozen layers, and number, rank and alpha of the layers with LoRA."""
        layers = list(enumerate(inner_layers(self)))
        frozen = [number for number, layer in layers if not layer.trainable]
        lora = [[number, layer.lora_rank, layer.lora_alpha] for number, layer in layers if has_lora(layer)]
        return {"frozen": frozen, "lora": lora}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "EmbeddingModel":
        """The model of a config, with the same layers frozen, and the same layers with LoRA."""
        frozen = set(config.get("frozen", ()))
        options = {name: value for name, value in config.items() if name not in ("frozen", "lora")}
        model = super().from_config(options, custom_objects)
        layers = inner_layers(model)
        for number, rank, alpha in config.get("lora", ()):
            adapt(layers[number], rank, alpha)
        freeze_around_lora(layers)
        for number, layer in enumerate(layers):
            if number in frozen and layer.trainable:
                layer.trainable = False
        return model

    def get_compile_config(self) -> dict[str, Any]:
        """The compile config of Keras, the number of training steps, and the multipliers of learning rates."""
        config = super().get_compile_config()
        if not config:
            return config
        options = {"steps": self.steps, "learning_rate_multipliers": self._multipliers}
        options["micro_batch_size"] = self._micro_batch_size
        if self._is_replicated() and config["loss"] is not None:
            options["loss"] = keras.saving.serialize_keras_object(self.loss)  # not as replicas compute it
        options["jit_compile"] = self._jit_compile_option  # Keras would write what "auto" means on this device
        return {**with_public_optimizers(config), **options}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as the saved model was, so that the adopted layers exist before their weights are read."""
        options = keras.saving.deserialize_keras_object(with_shared_objects(config))
        steps = options.pop("steps")
        self.compile(**options)
        self.optimizer.build(self.trainable_variables)
        self._saved_steps = steps  # of the weights that are read next; a clone has weights of its own

    @property
    def steps(self) -> int:
        """Training steps since the model was compiled, saved in its `.keras` files; 0 before.

        One per batch on which `fit` or `train_on_batch` trained, applied or not: `optimizer.iterations` omits skipped
        and accumulated ones. After weights alone are loaded, it is `optimizer.iterations`.
        """
        if not self.compiled:
            return 0
        _, counted = keras.ops.convert_to_numpy(self._counter.state)
        return max(int(counted), int(keras.ops.convert_to_numpy(self.optimizer.iterations)))

    @property
    def _collapsed_steps(self) -> tuple[int, int]:
        """Batches in a row, up to the last one, whose embeddings are all the same, and near to each other."""
        same, near = keras.ops.convert_to_numpy(self._collapsed.state)
        return int(same), int(near)

    def make_train_function(self, force: bool = False) -> Any:
        """As in Keras, after the optimizer is built: TensorFlow traces a step twice that makes variables."""
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """As `keras.Model.fit`.

        Raises:
            ValueError: an endless data set without `steps_per_epoch` or `validation_steps`; `steps_per_execution` above
                1 on several replicas; several processes with other versions of packages, steps or epochs; a monitor
                `val_...` that no callback before it writes; and the errors of `evaluate`.
        """
        self._assert_compile_called("fit")
        arguments = inspect.signature(super().fit).bind(*args, **kwargs).arguments
        require_fit(self, arguments)
        with named_rows(), checked_data(self, self._checks, arguments) as checked:
            return super().fit(**checked)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.evaluate`.

        Raises:
            ValueError: arrays with masked entries, or of class ids that the backend cannot hold; batches whose rows
                the devices of `keras.distribution` do not divide.
        """
        self._assert_compile_called("evaluate")
        require_usable(self, x, y)
        arguments = inspect.signature(super().evaluate).bind(x, y, *args, **kwargs).arguments
        require_divisible(x, arguments.get("batch_size"))
        if "_use_cached_eval_dataset" in kwargs:  # `fit` calls it, which has checked the data
            return super().evaluate(x, y, *args, **kwargs)
        require_pixels(self, x)
        with checked_data(self, self._checks, arguments, trains=False) as checked, named_rows():
            return super().evaluate(**checked)

    def predict(self, x: Any, batch_size: int | None = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`; a ValueError for batches that the devices of `keras.distribution` do not divide."""
        require_divisible(x, batch_size)
        require_pixels(self, x)
        with named_rows():
            return super().predict(x, batch_size, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """As `keras.Model.predict_on_batch`, with the errors of `predict`."""
        require_pixels(self, x)
        return super().predict_on_batch(x)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.train_on_batch`, with the errors of `evaluate`."""
        self._require_usable_batch(x, y)
        return super().train_on_batch(x, y, *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.test_on_batch`, with the errors of `evaluate`."""
        self._require_usable_batch(x, y)
        return super().test_on_batch(x, y, *args, **kwargs)

    def _require_usable_batch(self, x, y):
        self._assert_compile_called()
        require_usable(self, x, y)
        require_divisible(x, sys.maxsize)
        require_pixels(self, x)
        self._checks_of_single_batches.of_data(x, y, sys.maxsize)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.__call__`, with the errors of `predict` outside of compiled functions."""
        require_pixels(self, args[0] if args else kwargs.get("inputs"))
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """The outputs of the network, in micro-batches in training where `compile` says so."""
        size = getattr(self, "_micro_batch_size", None)
        if not training or size is None:
            return super().call(inputs, training=training, mask=mask)
        return in_micro_batches(keras.Model(self.inputs, self.output), inputs, size)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """As `keras.Model.compute_loss`, of the rows of all replicas; only training changes the layers of the loss."""
        y, y_pred, sample_weight = of_all_replicas((y, y_pred, sample_weight))
        if not training:
            with unchanged(self.loss_layers):
                return super().compute_loss(x, y, y_pred, sample_weight, training=False)
        self._counter.next()
        collapsed = count_collapsed(self._collapsed.state * 1, self, y, keras.tree.flatten(y_pred))
        self._collapsed.state.assign(collapsed)
        loss = super().compute_loss(x, y, y_pred, sample_weight, training=True)
        stateful = _stateful_by_output(self.loss, self)
        labels = labels_of(y, losses_of(self.loss, self), self) if stateful else []
        for each, output in stateful:
            each.update(labels[output], keras.tree.flatten(y_pred)[output])
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all variables, on PyTorch, before a training step adds its own."""
        for variable in self.variables:  # Keras lists them by path, and two networks may share paths
            variable.value.grad = None

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.export`, without the layers of the loss, with merged LoRA; see `tfdml.export.saved_model`."""
        model = merge_lora(self)
        is_graph_alone = type(self).call is EmbeddingModel.call  # else the call of a subclass is exported
        network = keras.Model(model.input, model.output) if is_graph_alone else model
        return keras.Model.export(network, *args, **kwargs)

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.save`; of several processes that train one model, process 0 writes the file.

        Raises:
            ValueError: a file of the old format .h5, which keeps no class of another package, and could not be loaded;
                a variable that is divided over processes, so that process 0 does not have all of it.
        """
        suffix = str(filepath).rpartition(".")[2].lower()
        expected = "a name that ends in .keras. Weights alone go into .weights.h5 files, by save_weights"
        require(suffix not in ("h5", "hdf5"), f"filepath={str(filepath)!r}", expected)
        if process()[0] == 0:
            with in_one_process(variables_of(self)):
                super().save(filepath, *args, **kwargs)
        wait_for_all_processes()  # which may read the file next

    def save_own_variables(self, store: Any) -> None:
        """Save the variables that Keras saves, and the state of every random layer."""
        super().save_own_variables(store)
        for number, state in enumerate(self._random_states()):
            store[f"{_RANDOM}{number}"] = keras.ops.convert_to_numpy(state)

    def load_own_variables(self, store: Any) -> None:
        """Restore the variables that `save_own_variables` wrote."""
        super().load_own_variables({name: store[name] for name in store.keys() if not name.startswith(_RANDOM)})  # noqa: SIM118
        if hasattr(self, "_saved_steps"):
            self._set_steps(self._saved_steps)
            del self._saved_steps
        for number, state in enumerate(self._random_states()):
            state.assign(store[f"{_RANDOM}{number}"])

    def _random_states(self):
        own = [self._counter.state, self._collapsed.state] if hasattr(self, "_counter") else []
        states = [variable for variable in self.variables if variable.name == "seed_generator_state"]
        return [state for state in states if all(state is not other for other in own)]

    def _set_steps(self, steps):
        self._counter.state.assign([0, steps])
        self._collapsed.state.assign([0, 0])


def _layers_of(loss):
    """The layers of a loss, or of a list or dict of losses, each once."""
    losses = keras.tree.flatten(loss)
    return list({id(layer): layer for each_loss in losses for layer in getattr(each_loss, "layers", [])}.values())


def _flattened(layers):
    return [inner for layer in layers for inner in layer._flatten_layers()]


def _layers_by_output(loss, model):
    """Each `LossLayer` of the losses, once, with the number of the output that its loss takes."""
    layers: dict[int, tuple[LossLayer, int]] = {}
    for output_loss, output in _losses_with_layers(loss, model):
        for layer in output_loss.layers:
            if isinstance(layer, LossLayer):
                layers.setdefault(id(layer), (layer, output))
    return list(layers.values())


def _stateful_by_output(loss, model):
    """Updates of a training step, each with the number of its output: losses first, which may pair with a memory."""
    losses = [(each, output) for each, output in _losses_with_layers(loss, model) if hasattr(each, "update")]
    return losses + _layers_by_output(loss, model)


def _losses_with_layers(loss, model):
    """Each loss that holds layers, once, with the number of the output that it takes."""
    losses: dict[int, tuple[Any, int]] = {}
    for output_loss, output in losses_of(loss, model):
        if getattr(output_loss, "layers", []):
            losses.setdefault(id(output_loss), (output_loss, output))
    return list(losses.values())
