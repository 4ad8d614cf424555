"""Load the sources of a dbt project with rowfall, into what ``profiles.yml`` names."""
