"""What an experiment is: the declaration that library, service and command line share."""
