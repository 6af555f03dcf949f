# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    base/arena.c
    graph/shape.c
    graph/graph.c
    graph/verify.c
    graph/graph_print.c
    graph/build.c
    graph/build_layers.c
    graph/build_loss.c)
