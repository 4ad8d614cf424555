"""``python -m rowfall``."""

from rowfall.cli import main

if __name__ == "__main__":
    main()
