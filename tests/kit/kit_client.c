#include "kit_client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 120000L

struct kit_client {
    CURL *curl;
    struct curl_slist *headers;
    int port;
    char *answer; /* `length` bytes and a NUL */
    size_t length;
};

void kit_client_setup(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        abort();
}

static size_t receive(char *bytes, size_t size, size_t count, void *context)
{
    struct kit_client *client = context;
    const size_t more = size * count;
    char *answer = realloc(client->answer, client->length + more + 1);
    if (!answer)
        return 0;
    memcpy(answer + client->length, bytes, more);
    client->answer = answer;
    client->length += more;
    answer[client->length] = '\0';
    return more;
}

struct kit_client *kit_client_open(int port)
{
    struct kit_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->port = port;
    client->curl = curl_easy_init();
    client->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!client->curl || !client->headers) {
        kit_client_close(client);
        return NULL;
    }
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, client);
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_NOPROXY, "*");
    return client;
}

void kit_client_close(struct kit_client *client)
{
    curl_easy_cleanup(client->curl);
    curl_slist_free_all(client->headers);
    free(client->answer);
    free(client);
}

json_t *kit_client_post(struct kit_client *client, const char *path, const char *body, char *why,
                        size_t why_bytes)
{
    char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", client->port, path);
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body);
    client->length = 0;
    const CURLcode code = curl_easy_perform(client->curl);
    if (code != CURLE_OK) {
        snprintf(why, why_bytes, "no answer: %s", curl_easy_strerror(code));
        return NULL;
    }
    long status = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        snprintf(why, why_bytes, "HTTP %ld: %.200s", status, client->length ? client->answer : "");
        return NULL;
    }
    json_error_t error;
    json_t *json = json_loadb(client->length ? client->answer : "", client->length,
                              JSON_REJECT_DUPLICATES, &error);
    if (!json)
        snprintf(why, why_bytes, "the answer is no JSON: %s", error.text);
    return json;
}
