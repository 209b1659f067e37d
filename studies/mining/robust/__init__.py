"""More of A Simple and Effective Framework: its losses, from scratch and from ImageNet."""
