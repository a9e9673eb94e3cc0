"""Arrow Flight and Flight SQL messages, generated from the `.proto` files; no code of ours."""
