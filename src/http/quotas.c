#include "quotas.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

/* The bucket of tokens is kept as the time at which it will be full: that time moves on by one
 * token's time with each request, and may be at most a burst ahead of now. */
struct quota_place {
    struct client client;
    uint64_t full_ns;
    uint64_t used_ns; /* the last request; 0: nobody has the place */
    uint64_t running;
};

struct quotas {
    pthread_mutex_t lock;
    uint64_t secret;
    struct quota_place places[QUOTA_SETS][QUOTA_WAYS];
};

/* high of what is no IPv6 prefix: fe.. to ff.. are links and groups, never a client's /64 */
#define OF_KEY  UINT64_C(0xffffffffffffffff)
#define OF_IPV4 UINT64_C(0xfffffffffffffffe)
#define OF_NONE UINT64_C(0xfffffffffffffffd)

struct client client_of_key(uint64_t identity)
{
    return (struct client){ OF_KEY, identity };
}

struct client client_of_address(const struct sockaddr *address)
{
    struct client client = { OF_NONE, 0 };
    if (!address)
        return client;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        client = (struct client){ OF_IPV4, v4.sin_addr.s_addr };
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            uint32_t v4;
            memcpy(&v4, v6.sin6_addr.s6_addr + 12, sizeof v4);
            return (struct client){ OF_IPV4, v4 };
        }
        memcpy(&client.high, v6.sin6_addr.s6_addr, sizeof client.high);
    }
    return client;
}

int quotas_create(struct quotas **out, struct error *err)
{
    struct quotas *quotas = mem_alloc(1, sizeof *quotas);
    *out = quotas;
    if (!quotas)
        return error_set(err, ERR_NO_MEMORY, "no memory for the clients' quotas");
    pthread_mutex_init(&quotas->lock, NULL);
    quotas->secret = random_bits();
    return 0;
}

void quotas_destroy(struct quotas **in)
{
    struct quotas *quotas = *in;
    *in = NULL;
    if (!quotas)
        return;
    pthread_mutex_destroy(&quotas->lock);
    mem_free(quotas);
}

static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    bits = (bits ^ (bits >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return bits ^ (bits >> 32);
}

/* The client's place, or a new one for it; NULL: all that it could have are busy. */
static struct quota_place *find_place(struct quotas *quotas, struct client client)
{
    const uint64_t hash = mix(mix(client.high ^ quotas->secret) ^ client.low);
    struct quota_place *set = quotas->places[hash % QUOTA_SETS], *idle = NULL;
    for (size_t i = 0; i < QUOTA_WAYS; i++) {
        struct quota_place *place = &set[i];
        if (place->used_ns && place->client.high == client.high && place->client.low == client.low)
            return place;
        if (place->running == 0 && (!idle || place->used_ns < idle->used_ns))
            idle = place;
    }
    if (idle)
        *idle = (struct quota_place){ .client = client };
    return idle;
}

/* How long until there is a token; 0: it is taken. */
static uint64_t take_token(struct quota_place *place, const struct quota *quota, uint64_t now_ns)
{
    if (quota->requests_per_second == 0)
        return 0;
    const uint64_t token_ns = NS_PER_S / quota->requests_per_second;
    const uint64_t ahead_ns = token_ns * (quota->burst - 1);
    uint64_t full_ns = place->full_ns > now_ns ? place->full_ns : now_ns;
    if (full_ns - now_ns > ahead_ns)
        return full_ns - now_ns - ahead_ns;
    place->full_ns = full_ns + token_ns;
    return 0;
}

int quotas_take(struct quotas *quotas, struct client client, const struct quota *quota,
                uint64_t now_ns, struct quota_share *share, unsigned *retry_after_s,
                struct error *err)
{
    uint64_t wait_ns = 0;
    pthread_mutex_lock(&quotas->lock);
    struct quota_place *place = find_place(quotas, client);
    const bool crowded = place && quota->concurrency && place->running >= quota->concurrency;
    if (place && !crowded)
        wait_ns = take_token(place, quota, now_ns);
    if (place && !crowded && wait_ns == 0)
        place->running++;
    if (place)
        place->used_ns = now_ns ? now_ns : 1;
    pthread_mutex_unlock(&quotas->lock);

    *retry_after_s = 1;
    if (crowded)
        return error_set(err, ERR_TOO_OFTEN,
                         "%" PRIu64 " requests of this client are under way; "
                         "limits.key_concurrency allows no more",
                         quota->concurrency);
    if (wait_ns) {
        *retry_after_s = clock_whole_seconds(wait_ns);
        return error_set(err, ERR_TOO_OFTEN,
                         "this client asks more often than %" PRIu64 " times a second "
                         "(limits.key_requests_per_second); there is room in %" PRIu64 " ms",
                         quota->requests_per_second, (wait_ns + NS_PER_MS - 1) / NS_PER_MS);
    }
    *retry_after_s = 0;
    share->place = place;
    return 0;
}

void quotas_release(struct quotas *quotas, struct quota_share *share)
{
    if (!share->place)
        return;
    pthread_mutex_lock(&quotas->lock);
    share->place->running--;
    pthread_mutex_unlock(&quotas->lock);
    share->place = NULL;
}
