"""From a syntax tree to the logical plan: names, relations, joins, and what surrounds a call; runs nothing."""
