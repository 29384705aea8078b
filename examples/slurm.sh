#!/bin/bash
#SBATCH --nodes=9 --gpus-per-node=8 --ntasks-per-node=1 --cpus-per-task=64
#SBATCH --signal=B:TERM@180

# One training with Atropos: run-api, four environments and the trainer on the first node, inference servers on the others.
# `run.yaml` has one server under `openai`; Atropos puts the addresses of the other nodes in place of its address.
# Replace `your_trainer` by your trainer, and /shared by a folder that all nodes see.

set -euo pipefail

MODEL=Qwen/Qwen2.5-1.5B-Instruct
export NUM_TRAINING_NODES=1
mapfile -t NODES < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
HEAD=${NODES[0]}

for node in "${NODES[@]:1}"; do
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" bash -c '
        for gpu in {0..7}; do
            CUDA_VISIBLE_DEVICES=$gpu vllm serve '"$MODEL"' --port $((9000 + gpu)) \
                --max-model-len 4096 --dtype bfloat16 &
        done; wait' &
done

srun --overlap --nodes=1 --ntasks=1 --nodelist="$HEAD" run-api --port 8000 &

environments=()
for number in 1 2 3 4; do
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$HEAD" python reasoning_gym_environment.py serve --config run.yaml \
        --slurm True --env.instance "$number" --env.rollout_server_url "http://$HEAD:8000" &
    environments+=($!)
done

# SLURM sends SIGTERM 180 s before the time limit. The environments then finish groups in flight and save their state.
trap 'kill -TERM "${environments[@]}"; wait "${environments[@]}"; exit 0' TERM

srun --overlap --nodes=1 --ntasks=1 --nodelist="$HEAD" python -m your_trainer --atropos-url "http://$HEAD:8000" \
    --checkpoint-dir /shared/run/checkpoints &
wait $!
