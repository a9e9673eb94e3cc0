"""In which order a block's AI conditions are asked, and from which side: an abstract problem in, an order out."""
