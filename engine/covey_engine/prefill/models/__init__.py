"""One module an architecture: weights and packed tokens go in, hidden states come out."""
