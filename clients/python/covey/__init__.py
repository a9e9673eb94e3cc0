"""The Covey client: `connect` to a server, run AI-SQL, read Arrow back; nothing of the server is imported."""
