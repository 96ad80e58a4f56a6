"""Record what TensorFlow really ran, and where: sessions, functions and eager operations."""
