"""The demo: tables of a small company (`data/`), five queries on them, and the command that runs these."""
