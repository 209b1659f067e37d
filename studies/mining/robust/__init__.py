"""More of A Simple and Effective Framework: its losses, equal steps, and pairs of zero loss."""
