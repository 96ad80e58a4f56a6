/*
 * A stand-in for the NVIDIA driver's libnvidia-ml.so.1: the functions that jupyter_placement.memory calls, answered from the
 * text file that NVML_STUB_SCRIPT names. The file is read again whenever it changes, so a test can change the machine under a
 * running program. One statement a line; fields of a statement are separated by tabs:
 *
 *   driver     VERSION
 *   generation N                      a new N is a reloaded driver: every call fails until NVML is started again
 *   card       key=value ...          name uuid domain bus device total used reserved util mig
 *   instance   CARD key=value ...     a MIG instance of card CARD: slot name uuid gi ci total used reserved
 *   process    WHERE pid=N used=N kind=C|G     WHERE is CARD, or CARD.SLOT for a MIG instance; used=-1: not told
 *   error      FUNCTION CODE [WHERE]  the function returns CODE, for every card or for one
 *   hang       FUNCTION MILLISECONDS  the function takes that long, or until the file no longer says so
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define CARDS 16
#define SLOTS 7
#define PROCESSES 1024
#define RULES 64
#define FUNCTIONS 32
#define WORD 96

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };

typedef struct {
    int there, slot, mig;
    unsigned domain, bus, device, util, gi, ci;
    unsigned long long total, used, reserved;
    char name[WORD], uuid[WORD];
} Unit;
typedef struct { int card, slot; unsigned pid; unsigned long long used; char kind; } Process;
typedef struct { char function[WORD]; int code, card, slot; long milliseconds; } Rule;
typedef struct {
    char driver[WORD];
    long generation;
    int cards, processes, rules;
    Unit card[CARDS], instance[CARDS][SLOTS];
    Process process[PROCESSES];
    Rule rule[RULES];
} Machine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Machine machine;
static struct timespec read_at;
static ino_t read_inode;
static int started, have_script;
static long started_generation;
static struct { char name[WORD]; long calls; } called[FUNCTIONS];

static const char *value(const char *line, const char *key) {
    static char found[WORD];
    char wanted[WORD];
    snprintf(wanted, sizeof wanted, "\t%s=", key);
    const char *at = strstr(line, wanted);
    if (!at) return NULL;
    at += strlen(wanted);
    size_t length = strcspn(at, "\t\n");
    if (length >= sizeof found) length = sizeof found - 1;
    memcpy(found, at, length);
    found[length] = 0;
    return found;
}

static unsigned long long number(const char *line, const char *key) {
    const char *text = value(line, key);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void text(const char *line, const char *key, char *into) {
    const char *found = value(line, key);
    snprintf(into, WORD, "%s", found ? found : "");
}

static void unit(const char *line, Unit *into) {
    into->there = 1;
    into->slot = (int)number(line, "slot");
    into->mig = (int)number(line, "mig");
    into->domain = (unsigned)number(line, "domain");
    into->bus = (unsigned)number(line, "bus");
    into->device = (unsigned)number(line, "device");
    into->util = (unsigned)number(line, "util");
    into->gi = (unsigned)number(line, "gi");
    into->ci = (unsigned)number(line, "ci");
    into->total = number(line, "total");
    into->used = number(line, "used");
    into->reserved = number(line, "reserved");
    text(line, "name", into->name);
    text(line, "uuid", into->uuid);
}

static void where(const char *word, int *card, int *slot) {
    *card = *slot = -1;
    sscanf(word, "%d.%d", card, slot);
}

static void statement(const char *line) {
    char first[WORD] = "", second[WORD] = "", third[WORD] = "", fourth[WORD] = "";
    sscanf(line, "%95[^\t\n]\t%95[^\t\n]\t%95[^\t\n]\t%95[^\t\n]", first, second, third, fourth);
    if (!strcmp(first, "driver")) snprintf(machine.driver, WORD, "%s", second);
    else if (!strcmp(first, "generation")) machine.generation = atol(second);
    else if (!strcmp(first, "card") && machine.cards < CARDS) unit(line, &machine.card[machine.cards++]);
    else if (!strcmp(first, "instance") && atoi(second) < CARDS) {
        Unit one = {0};
        unit(line, &one);
        if (one.slot < SLOTS) machine.instance[atoi(second)][one.slot] = one;
    } else if (!strcmp(first, "process") && machine.processes < PROCESSES) {
        Process *one = &machine.process[machine.processes++];
        where(second, &one->card, &one->slot);
        one->pid = (unsigned)number(line, "pid");
        const char *used = value(line, "used");
        one->used = used && used[0] == '-' ? ~0ULL : number(line, "used");
        const char *kind = value(line, "kind");
        one->kind = kind ? kind[0] : 'C';
    } else if ((!strcmp(first, "error") || !strcmp(first, "hang")) && machine.rules < RULES) {
        Rule *rule = &machine.rule[machine.rules++];
        memset(rule, 0, sizeof *rule);
        snprintf(rule->function, WORD, "%s", second);
        if (first[0] == 'e') rule->code = atoi(third);
        else rule->milliseconds = atol(third);
        where(fourth, &rule->card, &rule->slot);
    }
}

static void refresh(void) {
    const char *path = getenv("NVML_STUB_SCRIPT");
    struct stat now;
    if (!path || stat(path, &now)) { have_script = 0; return; }
    if (have_script && now.st_ino == read_inode && now.st_mtim.tv_sec == read_at.tv_sec
        && now.st_mtim.tv_nsec == read_at.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) { have_script = 0; return; }
    memset(&machine, 0, sizeof machine);
    char line[1024];
    while (fgets(line, sizeof line, file)) statement(line);
    fclose(file);
    have_script = 1;
    read_inode = now.st_ino;
    read_at = now.st_mtim;
}

static void count(const char *function) {
    for (int k = 0; k < FUNCTIONS; k++) {
        if (!called[k].name[0]) snprintf(called[k].name, WORD, "%s", function);
        if (!strcmp(called[k].name, function)) { called[k].calls++; return; }
    }
}

static long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static const Rule *rule(const char *function, int hang, int card, int slot) {
    for (int k = 0; k < machine.rules; k++) {
        const Rule *one = &machine.rule[k];
        if (strcmp(one->function, function) || (one->milliseconds > 0) != hang) continue;
        if (one->card < 0 || (one->card == card && one->slot == slot)) return one;
    }
    return NULL;
}

/* Enter a call: count it, hang if the script says so, and return the error that it must give. The lock is held afterwards. */
static int enter(const char *function, int card, int slot) {
    long long began = milliseconds();
    pthread_mutex_lock(&lock);
    count(function);
    refresh();
    const Rule *hanging;
    while ((hanging = rule(function, 1, card, slot)) && milliseconds() - began < hanging->milliseconds) {
        pthread_mutex_unlock(&lock);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        refresh();
    }
    if (!have_script) return DRIVER_NOT_LOADED;
    const Rule *failing = rule(function, 0, card, slot);
    if (failing) return failing->code;
    if (strcmp(function, "nvmlInitWithFlags") && (!started || machine.generation != started_generation)) return UNINITIALIZED;
    return OK;
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

/* A handle is not a pointer to anything: card k is 1 + k, slot s of it 1000 (k + 1) + s. */
static void *handle(int card, int slot) { return (void *)(size_t)(slot < 0 ? card + 1 : 1000 * (card + 1) + slot); }
static int card_of(void *h) { size_t n = (size_t)h; return (int)(n < 1000 ? n - 1 : n / 1000 - 1); }
static int slot_of(void *h) { size_t n = (size_t)h; return n < 1000 ? -1 : (int)(n % 1000); }

static Unit *find(void *h) {
    int card = card_of(h), slot = slot_of(h);
    if (card < 0 || card >= machine.cards) return NULL;
    Unit *one = slot < 0 ? &machine.card[card] : slot < SLOTS ? &machine.instance[card][slot] : NULL;
    return one && one->there ? one : NULL;
}

#define ENTER(h) \
    int code = enter(__func__, card_of(h), slot_of(h)); \
    if (code) return leave(code); \
    Unit *one = find(h); \
    if (!one) return leave(GPU_IS_LOST)

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = enter(__func__, -1, -1);
    if (code) return leave(code);
    started++;
    started_generation = machine.generation;
    return leave(OK);
}

EXPORT int nvmlShutdown(void) {
    int code = enter(__func__, -1, -1);
    if (started) started--;
    return leave(code);
}

EXPORT int nvmlSystemGetDriverVersion(char *into, unsigned length) {
    int code = enter(__func__, -1, -1);
    if (!code) snprintf(into, length, "%s", machine.driver);
    return leave(code);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *into) {
    int code = enter(__func__, -1, -1);
    if (!code) *into = (unsigned)machine.cards;
    return leave(code);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **into) {
    int code = enter(__func__, (int)index, -1);
    if (!code && (int)index >= machine.cards) code = INVALID_ARGUMENT;
    if (!code) *into = handle((int)index, -1);
    return leave(code);
}

EXPORT int nvmlDeviceGetName(void *h, char *into, unsigned length) {
    ENTER(h);
    snprintf(into, length, "%s", one->name);
    return leave(OK);
}

EXPORT int nvmlDeviceGetUUID(void *h, char *into, unsigned length) {
    ENTER(h);
    snprintf(into, length, "%s", one->uuid);
    return leave(OK);
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *h, void *into) {
    struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } *pci = into;
    ENTER(h);
    memset(pci, 0, sizeof *pci);
    pci->domain = one->domain;
    pci->bus = one->bus;
    pci->device = one->device;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", one->domain, one->bus, one->device);
    return leave(OK);
}

EXPORT int nvmlDeviceGetMemoryInfo(void *h, void *into) {
    struct { unsigned long long total, free, used; } *memory = into;
    ENTER(h);
    memory->total = one->total;
    memory->used = one->used + one->reserved;
    memory->free = memory->total - memory->used;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *h, void *into) {
    struct { unsigned version; unsigned long long total, reserved, free, used; } *memory = into;
    ENTER(h);
    if (memory->version != 0x02000028) return leave(INVALID_ARGUMENT);
    memory->total = one->total;
    memory->reserved = one->reserved;
    memory->used = one->used;
    memory->free = one->total - one->used - one->reserved;
    return leave(OK);
}

EXPORT int nvmlDeviceGetUtilizationRates(void *h, void *into) {
    struct { unsigned gpu, memory; } *rates = into;
    ENTER(h);
    if (slot_of(h) >= 0) return leave(NOT_SUPPORTED); /* as the driver says of a MIG instance */
    rates->gpu = one->util;
    rates->memory = 0;
    return leave(OK);
}

static int processes(const char *function, char kind, void *h, unsigned *size, void *into) {
    struct { unsigned pid; unsigned long long used; unsigned gi, ci; } *list = into;
    int code = enter(function, card_of(h), slot_of(h));
    if (code) return leave(code);
    if (!find(h)) return leave(GPU_IS_LOST);
    unsigned found = 0;
    for (int k = 0; k < machine.processes; k++) {
        const Process *one = &machine.process[k];
        if (one->kind != kind || one->card != card_of(h) || one->slot != slot_of(h)) continue;
        if (list && found < *size) {
            list[found].pid = one->pid;
            list[found].used = one->used;
            list[found].gi = list[found].ci = ~0U;
        }
        found++;
    }
    code = found > *size ? INSUFFICIENT_SIZE : OK;
    *size = found;
    return leave(code);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *size, void *into) {
    return processes(__func__, 'C', h, size, into);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *h, unsigned *size, void *into) {
    return processes(__func__, 'C', h, size, into);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *size, void *into) {
    return processes(__func__, 'G', h, size, into);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(void *h, unsigned *size, void *into) {
    return processes(__func__, 'G', h, size, into);
}

EXPORT int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    ENTER(h);
    *current = *pending = (unsigned)one->mig;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *into) {
    ENTER(h);
    *into = SLOTS;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned index, void **into) {
    ENTER(h);
    if (index >= SLOTS || !machine.instance[card_of(h)][index].there) return leave(NOT_FOUND);
    *into = handle(card_of(h), (int)index);
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *h, unsigned *into) {
    ENTER(h);
    *into = one->gi;
    return leave(OK);
}

EXPORT int nvmlDeviceGetComputeInstanceId(void *h, unsigned *into) {
    ENTER(h);
    *into = one->ci;
    return leave(OK);
}

EXPORT const char *nvmlErrorString(int code) {
    static char sentence[WORD];
    snprintf(sentence, sizeof sentence, "Stub error %d", code);
    return sentence;
}

/* For the tests alone: how often NVML was started and not stopped, and the functions called so far, one a line. */
EXPORT int nvml_stub_started(void) { return started; }

EXPORT void nvml_stub_called(char *into, unsigned length) {
    pthread_mutex_lock(&lock);
    into[0] = 0;
    for (int k = 0; k < FUNCTIONS && called[k].name[0]; k++) {
        size_t used = strlen(into);
        snprintf(into + used, length - used, "%s\n", called[k].name);
    }
    pthread_mutex_unlock(&lock);
}
