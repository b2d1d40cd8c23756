/*
 * The only native code that enters a training process: it starts one thread and goes away again.
 *
 * attach/ptrace.py calls dlopen() on this object in a thread of the process that is parked in a system call. Everything that can
 * wait or fail therefore happens in a thread of our own, never in the borrowed one. That thread leaves empty files beside this
 * object, in this order, for attach/inject.py to read:
 *
 *     native      the thread runs
 *     nopy        no Python is loaded here, or it is not initialised; nothing was run
 *     gil         the thread has the GIL
 *     boot.error  boot.py raised; the file holds the traceback
 *     done        boot.py has ended and the GIL is released; the object unloads itself
 *     nothread    no thread could be started; the object stays loaded and does nothing
 *
 * Linked with -nostdlib: its symbols carry no glibc version and are bound to whatever libc the process has, old or new.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#ifndef __OPTIMIZE__
#error "needs -O2: the thread leaves by a sibling call, which an unoptimised build turns into a return to unmapped memory"
#endif

#define STACK_BYTES (2u << 20) /* explicit: RLIMIT_STACK may be huge, musl's own default too small for Python */
#define PY_FILE_INPUT 257

static char own_path[PATH_MAX];
static char directory[PATH_MAX];

/* Runs in a dictionary of its own that holds only `directory`, so that the user's __main__ is not touched. */
static const char BOOT[] =
    "try:\n"
    "    path = directory + '/boot.py'\n"
    "    with open(path, encoding='utf-8') as file:\n"
    "        source = file.read()\n"
    "    exec(compile(source, path, 'exec'), {'__name__': 'traindbg_boot', '__file__': path})\n"
    "except BaseException:\n"
    "    import traceback\n"
    "    with open(directory + '/boot.error', 'w', encoding='utf-8') as file:\n"
    "        traceback.print_exc(file=file)\n";

struct python {
    int (*is_initialized)(void);
    int (*ensure_gil)(void);
    void (*release_gil)(int);
    void *(*new_dict)(void);
    void *(*decode_path)(const char *);
    int (*set_item)(void *, const char *, void *);
    void *(*run)(const char *, int, void *, void *, void *);
    void (*decref)(void *);
    void (*clear_error)(void);
};

static void mark(const char *name)
{
    char path[PATH_MAX + 32];
    size_t length = strlen(directory);

    memcpy(path, directory, length);
    path[length] = '/';
    strcpy(path + length + 1, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
}

static int find_python(struct python *py)
{
    py->is_initialized = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    py->ensure_gil = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    py->release_gil = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    py->new_dict = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyDict_New");
    py->decode_path = (void *(*)(const char *))dlsym(RTLD_DEFAULT, "PyUnicode_DecodeFSDefault");
    py->set_item = (int (*)(void *, const char *, void *))dlsym(RTLD_DEFAULT, "PyDict_SetItemString");
    py->run = (void *(*)(const char *, int, void *, void *, void *))dlsym(RTLD_DEFAULT, "PyRun_StringFlags");
    py->decref = (void (*)(void *))dlsym(RTLD_DEFAULT, "Py_DecRef");
    py->clear_error = (void (*)(void))dlsym(RTLD_DEFAULT, "PyErr_Clear");
    return py->is_initialized && py->ensure_gil && py->release_gil && py->new_dict && py->decode_path && py->set_item &&
           py->run && py->decref && py->clear_error && py->is_initialized();
}

/* With the GIL held. Py_DecRef accepts NULL. No exception is left behind: it would be printed, or SystemExit obeyed, elsewhere. */
static void run_boot(const struct python *py)
{
    void *names = py->new_dict();
    void *path = py->decode_path(directory);
    void *result = NULL;

    if (names && path && py->set_item(names, "directory", path) == 0)
        result = py->run(BOOT, PY_FILE_INPUT, names, names, NULL);
    if (!result) {
        py->clear_error();
        mark("boot.error");
    }
    py->decref(result);
    py->decref(path);
    py->decref(names);
}

/* Everything but leaving. A function of its own because a caller with locals in memory cannot end in a sibling call. */
static __attribute__((noinline)) void *work(void)
{
    struct python py;

    mark("native");
    if (find_python(&py)) {
        int state = py.ensure_gil(); /* waits as long as it takes */
        mark("gil");
        run_boot(&py);
        py.release_gil(state);
    } else {
        mark("nopy");
    }
    void *self = dlopen(own_path, RTLD_LAZY | RTLD_NOLOAD); /* before the file goes: musl looks it up by inode */
    unlink(own_path);
    mark("done");
    return self;
}

static void *thread_main(void *unused)
{
    void *self = work();
    void *(*leave)(void *) = (void *(*)(void *))dlclose; /* a register jump: a PLT entry would lie in what is unmapped */

    (void)unused;
    if (!self)
        return NULL; /* stay loaded rather than guess */
    dlclose(self); /* the reference that RTLD_NOLOAD took */
    return leave(self); /* the last one: a jump, so that dlclose returns to libc and not into this page */
}

__attribute__((constructor)) static void start(void)
{
    Dl_info here;
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    if (!dladdr((void *)start, &here) || !here.dli_fname || strlen(here.dli_fname) >= sizeof own_path)
        return;
    strcpy(own_path, here.dli_fname);
    strcpy(directory, own_path);
    char *slash = strrchr(directory, '/');
    if (!slash)
        return;
    *slash = '\0';

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* the thread inherits this: the program's signals are not for it */
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, STACK_BYTES);
    if (pthread_create(&thread, &detached, thread_main, NULL) != 0)
        mark("nothread");
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/*
 * The second way in, for a process of which no thread is ever parked. attach/pending.py maps two fresh pages in the process, copies this
 * section into both, each behind a `struct visit`, and queues pending_call() with CPython, which calls it on the main thread between two
 * instructions of Python, as it would a signal handler. That thread only starts another one, which loads this object and so starts the
 * thread above. The code runs where it was copied to: it refers to nothing but its struct. Each copy leaves by a jump to munmap. Besides:
 *
 *     nothread    no thread could be started
 *     noload      this object could not be loaded
 */
#ifdef __x86_64__
#define COPIED __attribute__((section("pending"), noinline, used))
#define PAGE 4096

struct visit { /* laid out by attach/pending.py */
    long pid;
    struct visit *second; /* the copy that the thread runs in */
    void *(*thread)(void *);
    int (*getpid)(void);
    int (*fill)(sigset_t *);
    int (*mask)(int, const sigset_t *, sigset_t *);
    int (*attr_init)(pthread_attr_t *);
    int (*attr_detach)(pthread_attr_t *, int);
    int (*attr_stack)(pthread_attr_t *, size_t);
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *(*load)(const char *, int);
    int (*open)(const char *, int, ...);
    int (*close)(int);
    int (*unmap)(void *, size_t);
    char object[512], nothread[512], noload[512];
};

COPIED static void leave_mark(const struct visit *v, const char *path)
{
    int fd = v->open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        v->close(fd);
}

/* How much of the two pages is no longer needed. */
COPIED static size_t start_thread(struct visit *v)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    if (v->getpid() != v->pid)
        return 2 * PAGE; /* forked since, with the queue: the visit is not for this process */
    v->fill(&all);
    v->mask(SIG_BLOCK, &all, &before);
    v->attr_init(&detached);
    v->attr_detach(&detached, PTHREAD_CREATE_DETACHED);
    v->attr_stack(&detached, STACK_BYTES);
    int failed = v->create(&thread, &detached, v->thread, v->second);
    v->mask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return PAGE;
    leave_mark(v, v->nothread);
    return 2 * PAGE;
}

/* Returns 0, as munmap does: CPython takes anything else for an exception. */
COPIED __attribute__((visibility("default"))) int pending_call(struct visit *v)
{
    return v->unmap(v, start_thread(v));
}

COPIED __attribute__((visibility("default"))) int pending_thread(struct visit *v)
{
    if (!v->load(v->object, RTLD_NOW))
        leave_mark(v, v->noload);
    return v->unmap(v, PAGE);
}
#endif
