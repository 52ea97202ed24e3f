"""Who may do what: identities, roles, bindings, and the one decision."""
