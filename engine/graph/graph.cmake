# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    base/arena.c
    graph/shape.c
    graph/shape_element.c
    graph/shape_product.c
    graph/shape_window.c
    graph/shape_norm.c
    graph/shape_axis.c
    graph/shape_move.c
    graph/shape_loss.c
    graph/graph.c
    graph/verify.c
    graph/graph_print.c
    graph/build.c
    graph/build_node.c
    graph/build_layers.c
    graph/build_product.c
    graph/build_attention.c
    graph/build_window.c
    graph/build_norm.c
    graph/build_element.c
    graph/build_axis.c
    graph/build_move.c
    graph/build_blocks.c
    graph/build_loss.c)
