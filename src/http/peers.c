#include "peers.h"

#include <assert.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/ticker.h"

enum { TICK_MS = 50, LINGER_MS = 2000, LINGER_READS = 64 };

struct peer {
    int fd; /* the library's; our own copy once `leaving` */
    uint64_t deadline_ns;
    struct request *request;
    bool linger, leaving;
    struct peer *next, *previous;
};

struct peers {
    struct ticker ticker; /* its lock guards `first` and every peer */
    struct peer *first;
};

static void unlink_peer(struct peers *peers, struct peer *peer)
{
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        peers->first = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
}

static bool has_left(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLRDHUP };
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Throws away what a lingering peer sent.  False: nothing more will come. */
static bool drain(int fd)
{
    char waste[16384];
    for (int i = 0; i < LINGER_READS; i++) {
        const ssize_t got = recv(fd, waste, sizeof waste, MSG_DONTWAIT);
        if (got <= 0)
            return got < 0;
    }
    return true;
}

static void look_at(struct peers *peers, struct peer *peer, uint64_t now_ns)
{
    if (peer->leaving) {
        if (now_ns < peer->deadline_ns && drain(peer->fd) && !has_left(peer->fd))
            return;
        close(peer->fd);
        unlink_peer(peers, peer);
        mem_free(peer);
    } else if (peer->request) {
        if (has_left(peer->fd))
            request_cancel(peer->request, ERR_CLIENT_GONE);
    } else if (now_ns >= peer->deadline_ns) {
        /* The library sees the end of the stream and closes. */
        shutdown(peer->fd, SHUT_RDWR);
    }
}

static bool look(void *context)
{
    struct peers *peers = context;
    const uint64_t now_ns = clock_ns();
    for (struct peer *peer = peers->first, *next; peer; peer = next) {
        next = peer->next;
        look_at(peers, peer, now_ns);
    }
    return peers->first != NULL;
}

int peers_start(struct peers **out, struct error *err)
{
    struct peers *peers = mem_alloc(1, sizeof *peers);
    *out = NULL;
    if (!peers)
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of connections");
    if (ticker_start(&peers->ticker, "peers", TICK_MS * NS_PER_MS, look, peers, err) < 0) {
        mem_free(peers);
        return -1;
    }
    *out = peers;
    return 0;
}

void peers_stop(struct peers **in)
{
    struct peers *peers = *in;
    if (!peers)
        return;
    *in = NULL;
    ticker_stop(&peers->ticker);
    while (peers->first) {
        struct peer *peer = peers->first;
        assert(peer->leaving);
        close(peer->fd);
        unlink_peer(peers, peer);
        mem_free(peer);
    }
    mem_free(peers);
}

struct peer *peers_add(struct peers *peers, int fd, uint64_t deadline_ns)
{
    struct peer *peer = mem_alloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    *peer = (struct peer){ .fd = fd, .deadline_ns = deadline_ns };
    ticker_lock(&peers->ticker);
    peer->next = peers->first;
    if (peer->next)
        peer->next->previous = peer;
    else
        ticker_wake(&peers->ticker);
    peers->first = peer;
    ticker_unlock(&peers->ticker);
    return peer;
}

void peers_remove(struct peers *peers, struct peer *peer)
{
    ticker_lock(&peers->ticker);
    if (peer->linger) {
        /* The copy keeps the connection half open when the library closes its own. */
        shutdown(peer->fd, SHUT_WR);
        peer->fd = dup(peer->fd);
        peer->leaving = peer->fd >= 0;
        peer->deadline_ns = clock_ns() + LINGER_MS * NS_PER_MS;
    }
    const bool over = !peer->leaving;
    if (over)
        unlink_peer(peers, peer);
    ticker_unlock(&peers->ticker);
    if (over)
        mem_free(peer);
}

void peers_expect(struct peers *peers, struct peer *peer, uint64_t deadline_ns)
{
    ticker_lock(&peers->ticker);
    peer->deadline_ns = deadline_ns;
    ticker_unlock(&peers->ticker);
}

void peers_watch(struct peers *peers, struct peer *peer, struct request *request)
{
    ticker_lock(&peers->ticker);
    peer->request = request;
    ticker_unlock(&peers->ticker);
}

void peers_linger(struct peers *peers, struct peer *peer)
{
    ticker_lock(&peers->ticker);
    peer->linger = true;
    ticker_unlock(&peers->ticker);
}

bool peers_has_left(struct peers *peers, const struct peer *peer)
{
    ticker_lock(&peers->ticker);
    const bool left = has_left(peer->fd);
    ticker_unlock(&peers->ticker);
    return left;
}
