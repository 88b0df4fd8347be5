"""What every test starts from."""

import torch

torch.set_num_threads(1)  # the tensors are small: threads that wait for each other take several times as long
