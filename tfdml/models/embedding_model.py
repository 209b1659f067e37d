"""A Keras model that trains whatever its loss owns."""

import keras

_RANDOM = "random_state_"


@keras.saving.register_keras_serializable("tfdml")
class EmbeddingModel(keras.Model):
    """A `keras.Model` that adopts the layers of its loss when it is compiled.

    Built like any functional model, `EmbeddingModel(inputs, outputs)`. A loss that learns or remembers something
    (proxies, margins, a memory, the state of a random miner) holds it in Keras layers and lists them in its `layers`;
    here `fit` trains them, `.keras` files keep them, and every Keras backend sees them. With any other loss it is a
    plain model.

    Its files also keep the state of random layers (dropout, augmentation), which Keras leaves out, so that training
    goes on as if it had never stopped.

    Attributes:
        loss_layers: the adopted layers, empty for losses without any.
    """

    def compile(self, *args, **kwargs):
        """As `keras.Model.compile`; the layers of the loss become part of this model."""
        super().compile(*args, **kwargs)
        if hasattr(self, "loss_layers"):
            self.loss_layers.clear()  # those of an earlier compile are not trained any more
        self.loss_layers = _layers_of(self.loss)

    def compile_from_config(self, config):
        """Compile as the saved model was, so that the adopted layers exist before their weights are read."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def export(self, *args, **kwargs):
        """As `keras.Model.export`, without the layers of the loss; see also `tfdml.export.saved_model`."""
        return keras.Model(self.inputs, self.outputs).export(*args, **kwargs)

    def save_own_variables(self, store):
        """What Keras saves, and the state of every random layer."""
        super().save_own_variables(store)
        for place, state in enumerate(self._random_states()):
            store[f"{_RANDOM}{place}"] = keras.ops.convert_to_numpy(state)

    def load_own_variables(self, store):
        """What `save_own_variables` wrote."""
        super().load_own_variables({name: store[name] for name in store.keys() if not name.startswith(_RANDOM)})  # noqa: SIM118
        for place, state in enumerate(self._random_states()):
            state.assign(store[f"{_RANDOM}{place}"])

    def _random_states(self):
        return [variable for variable in self.variables if variable.name == "seed_generator_state"]


def _layers_of(loss):
    """The layers of a loss, or of a list or dict of losses, each once."""
    losses = keras.tree.flatten(loss)
    return list({id(layer): layer for part in losses for layer in getattr(part, "layers", [])}.values())
