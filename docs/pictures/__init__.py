"""The pictures of the documentation, drawn from what the library does.

Rules:
  R1  a picture is a function of the code: ``python -m pictures``, in ``docs``, draws them all anew;
  R2  a test draws them and compares: a picture that is out of date fails.
"""
