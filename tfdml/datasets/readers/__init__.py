"""Readers of image folders, tables, TensorFlow Datasets, lists of pairs and public benchmarks."""
