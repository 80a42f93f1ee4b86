"""What MPI and Ray share: agents spread over processes, and rows dealt to them."""
