"""The worker process and its client: orders and answers on their way between two processes."""
