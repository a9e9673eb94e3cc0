"""From SQL text to a syntax tree whose AI calls are numbered sites, in three dialects; asks no catalog."""
