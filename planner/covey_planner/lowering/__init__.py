"""From the logical to the physical plan: steps with their domains, then the residual query; runs nothing."""
