"""What a plan costs: work in tokens and pairs, and from it seconds and dollars on a device; never runs anything."""
