"""What a plan will cost, or has cost, told to a person or a program; runs nothing."""
