"""Exports to runtimes other than TensorFlow: ONNX Runtime, OpenVINO, LiteRT, and browsers."""
