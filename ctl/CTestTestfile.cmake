# CMake generated Testfile for 
# Source directory: /work/main/ctl
# Build directory: /work/main/ctl
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
