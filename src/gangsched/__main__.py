"""``python -m gangsched``."""

import sys

from gangsched.cli import main

if __name__ == "__main__":
    sys.exit(main())
