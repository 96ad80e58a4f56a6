"""IPython's settings for the kernels that nbval starts."""

import os

# With this variable ipykernel (7.4) takes itself for a test and leaves descriptors 1 and 2 alone; a user's does not.
os.environ.pop("PYTEST_CURRENT_TEST", None)
