"""`python -m eventjobs` is the command `eventjobs`."""

from eventjobs.cli.main import main

if __name__ == "__main__":
    main()
