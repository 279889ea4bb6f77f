"""The pictures of the documentation, drawn from the behaviour of the library.

Rules:
  R1  a picture is a function of the code: ``python -m pictures``, in ``docs``, draws all pictures;
  R2  a test draws them and compares: a picture that is out of date fails.
"""
