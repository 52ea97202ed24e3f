"""Which gang is next, and what its queue and tenant may still take: DRF order, fair shares, ceilings, quotas."""
