/* Each rank says which one it is, and passes a number around the ring of all ranks, ROUNDS times.

   mpi_ring [ROUNDS [RANK CODE]]     RANK ends with CODE after the first round, without a word to the others */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d on %s\n", rank, size, getenv("GOSCHED_NODE"));
    fflush(stdout);
    for (int round = 0; round < rounds; round++) {
        int sent = rank, sum = 0, got;
        for (int step = 0; step < size; step++) {
            MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += sent = got;
        }
        if (sum != size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 99);
        if (argc > 3 && rank == atoi(argv[2])) _exit(atoi(argv[3]));
        if (rounds > 1) sleep(1);
    }
    printf("rank %d has seen all %d around the ring\n", rank, size);
    MPI_Finalize();
    return 0;
}
