/* version.h — which build this is.  Static texts. */
#ifndef APP_VERSION_H
#define APP_VERSION_H

const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* short hash, or "unknown" */

#endif
