/* A cache of strings, from C. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frazil.h"

static void drop_string(void *object, void *context) {
  printf("dropped %s\n", (char *)object);
  ++*(int *)context;
  free(object);
}

static void show(void *context, const uint8_t *key, size_t key_len, const frazil_entry *entry,
                 uint64_t charge) {
  (void)context;
  printf("%.*s: %s, charged %" PRIu64 "\n", (int)key_len, (const char *)key, (char *)entry->object,
         charge);
}

int main(void) {
  int dropped = 0;
  const frazil_kind strings = {drop_string, &dropped};
  const frazil_options options = {.capacity = 100, .policy = "s3-fifo"};
  frazil_cache *cache;
  if (frazil_new(&options, &cache) != FRAZIL_OK) {
    fprintf(stderr, "no cache\n");
    return EXIT_FAILURE;
  }

  frazil_insert(cache, (const uint8_t *)"one", 3, strdup("eins"), &strings, 5, FRAZIL_LOW, NULL);
  const frazil_entry *held;
  frazil_insert(cache, (const uint8_t *)"two", 3, strdup("zwei"), &strings, 5, FRAZIL_HIGH, &held);
  frazil_for_each(cache, show, NULL);

  /* What is erased while it is held stays for who holds it. */
  frazil_erase(cache, (const uint8_t *)"two", 3);
  printf("held: %s, in use %" PRIu64 "\n", (char *)held->object, frazil_usage(cache));
  frazil_release(cache, held, false);

  held = frazil_hold(cache, (const uint8_t *)"one", 3);
  printf("found: %s\n", (char *)held->object);
  frazil_release(cache, held, false);
  frazil_free(cache);
  return dropped == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
