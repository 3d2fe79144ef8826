"""Engines run packs: in this process, in workers, as jobs of Slurm or as tasks of Ray; the store keeps the outcomes."""
