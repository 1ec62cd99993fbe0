/* The least work each workload needs: copies of rows, and one pass of GAE. */
#include <stdint.h>
#include <string.h>

enum { FIELDS = 16, AHEAD = 16 };

typedef struct {
    int64_t fields, batch, capacity, position;
    char *base[FIELDS];
    char *batch_base[FIELDS];
    int64_t stride[FIELDS], size[FIELDS];
} plan;

/* The library's memcpy costs more than a small entry's bytes. */
static inline void copy(char *to, const char *from, int64_t size) {
    if (size == 4)
        memcpy(to, from, 4);
    else if (size == 8)
        memcpy(to, from, 8);
    else if (size < 16 || size > 256)
        memcpy(to, from, (size_t)size);
    else {
        for (int64_t done = 0; done < size - 16; done += 16)
            memcpy(to + done, from + done, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    }
}

/* Fields of a row lie together: visit each row once. */
void gather_rows(const plan *p, const int64_t *index) {
    const char *first = p->base[0];
    const int64_t stride = p->stride[0];
    for (int64_t i = 0; i < p->batch; i++) {
        if (i + AHEAD < p->batch) {
            const char *later = first + index[i + AHEAD] * stride;
            __builtin_prefetch(later);
            __builtin_prefetch(later + 64);
            __builtin_prefetch(later + 128);
        }
        for (int64_t f = 0; f < p->fields; f++)
            copy(p->batch_base[f] + i * p->size[f], p->base[f] + index[i] * stride, p->size[f]);
    }
}

/* Each field is an array of its own: visit one after the other. */
void gather_columns(const plan *p, const int64_t *index) {
    for (int64_t f = 0; f < p->fields; f++)
        for (int64_t i = 0; i < p->batch; i++) {
            if (i + AHEAD < p->batch)
                __builtin_prefetch(p->base[f] + index[i + AHEAD] * p->stride[f]);
            copy(p->batch_base[f] + i * p->size[f], p->base[f] + index[i] * p->stride[f], p->size[f]);
        }
}

/* Appends the batch to a ring of packed rows. */
void append_rows(plan *p) {
    int64_t row = p->position;
    for (int64_t i = 0; i < p->batch; i++) {
        for (int64_t f = 0; f < p->fields; f++)
            copy(p->base[f] + row * p->stride[f], p->batch_base[f] + i * p->size[f], p->size[f]);
        if (++row == p->capacity)
            row = 0;
    }
    p->position = row;
}

/* Appends the batch to a ring of columns. */
void append_columns(plan *p) {
    int64_t head = p->capacity - p->position;
    if (head > p->batch)
        head = p->batch;
    for (int64_t f = 0; f < p->fields; f++) {
        const int64_t size = p->size[f];
        memcpy(p->base[f] + p->position * size, p->batch_base[f], (size_t)(head * size));
        memcpy(p->base[f], p->batch_base[f] + head * size, (size_t)((p->batch - head) * size));
    }
    p->position = (p->position + p->batch) % p->capacity;
}

void gae(int64_t steps, int64_t envs, const float *restrict reward, const float *restrict value,
         const float *restrict done, const float *restrict last_value, float gamma, float lam,
         float *restrict running, float *restrict advantage) {
    memset(running, 0, (size_t)envs * sizeof(float));
    for (int64_t t = steps - 1; t >= 0; t--) {
        const float *following = t == steps - 1 ? last_value : value + (t + 1) * envs;
        for (int64_t e = 0; e < envs; e++) {
            const int64_t k = t * envs + e;
            const float discount = gamma * (1.0f - done[k]);
            running[e] = reward[k] + discount * (following[e] + lam * running[e]) - value[k];
            advantage[k] = running[e];
        }
    }
}
