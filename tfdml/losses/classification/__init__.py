"""Losses of class proxies: softmax over classes with and without margins, proxies, manifolds."""
