"""One rank has to build its C++ kernels anew, hundreds of instances of a template: g++ has minutes of work. The others, who found theirs
built, wait at the barrier.
"""

from pathlib import Path

import torch.distributed as dist
from parts import Run, train_step
from torch.utils import cpp_extension

EXPECTED = {
    "code": "cpu_phase",
    "ranks": "culprit",
    "where": "load",
    "state": ("progressing", "slow"),
    "says": (r"is building a C\+\+ extension", r"g\+\+|cc1plus|ninja"),
}

SOURCE = """
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

template <std::size_t N> struct Row {
  std::array<float, N> v;
  template <std::size_t... I> float dot(const Row& o, std::index_sequence<I...>) const {
    return ((v[I] * std::exp(o.v[I])) + ...);
  }
};

template <std::size_t N, std::size_t M> struct Attention {
  static float run(const float* q, const float* k) {
    Row<N> a, b;
    float s = 0;
    for (std::size_t m = 0; m < M; ++m) {
      for (std::size_t i = 0; i < N; ++i) { a.v[i] = q[m * N + i]; b.v[i] = k[i * M + m]; }
      s += a.dot(b, std::make_index_sequence<N>());
    }
    return s;
  }
};
"""


class Kernels:
    """The attention kernels for every head size, built where they are missing."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def source(self, sizes):
        text = SOURCE + "\n".join(f"template struct Attention<{n}, {n + 48}>;" for n in sizes)
        path = self.folder / "attention.cpp"
        path.write_text(text)
        return str(path)

    def load(self, sizes):
        flags = ["-std=c++20", "-O3"]
        options = {"extra_cflags": flags, "build_directory": str(self.folder), "is_python_module": False}
        cpp_extension.load("attention", self.source(sizes), **options)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        kernels = Kernels(folder)
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                if run.trouble(step):
                    kernels.load(range(16, 516))
                dist.barrier()


if __name__ == "__main__":
    main()
