"""What a finished study means: gains, their significance, figures and a report, from a store and nothing else."""
