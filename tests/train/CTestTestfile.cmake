# CMake generated Testfile for 
# Source directory: /work/main/tests/train
# Build directory: /work/main/tests/train
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
