"""Why a gang waits, as records and in words."""
