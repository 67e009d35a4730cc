"""Changes layouts of activations: stores channels in blocks of 16, and pads channels to blocks."""
