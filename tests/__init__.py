"""On JAX, tests compile with few of XLA's optimizations, in a third of the time; on TensorFlow with all of them."""

import os

FEW_OPTIMIZATIONS = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".lstrip(),
}

if os.environ.get("KERAS_BACKEND") == "jax":
    os.environ.update(FEW_OPTIMIZATIONS)
