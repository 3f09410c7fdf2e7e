"""The engines `cuda` and `cudnn`: a network on NVIDIA GPUs, by kernels compiled for its
sizes. README.md has the map.

    engine.py   CudaEngine; data.py: its rows, epoch.py: the optimiser; cudnn.py;
                group.py, nccl.py: several GPUs
    runner.py   runs a program: whole epochs in one launch, or a graph of its phases;
                small.py: small dense networks, pack.py: many of them at once;
                standing.py: forward passes that come again, a graph each
    builder.py  layers -> a program (program.py), with files for layers: dense, conv,
                embedding, plain (those without parameters)
    memory.py   buffers, blocks and tiles that these ask for; abi.py: tables that host
                and kernels share
    device.py   the GPU, its libraries and its errors; cublas.py

A .cu file has the name of its subject; common.cu: batch, blocks, loads, Philox;
gemm.cu: products in tiles.

Imports: utils, nn_aux, core, cluster, layers, backends (engine.py, member.py). Imported
by: backends, which asks device.py first.
"""
