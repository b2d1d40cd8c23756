"""What `evaluation.py` gathers."""

_everything = {"inputs": [], "predictions": []}


def gather(inputs, logits, labels):
    _everything["inputs"].append(inputs.cpu().numpy())  # leaks
    _everything["predictions"].append((logits.argmax(1) == labels).float().mean().item())
