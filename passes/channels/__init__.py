"""Changes layouts of activations: stores channels in blocks, and pads them to whole blocks."""
